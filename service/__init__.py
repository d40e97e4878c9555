"""The servers, a folder each; beside them what all mains share: command lines, signals, the ready line, a child node.

Called as programs (`main` in each folder; `sim` is no server: it runs the coordinator's rules). Servers never import
one another: they meet in protos. (A node may hold a coordinator.)
"""
