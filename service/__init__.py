"""The servers, a folder each, and `common_to_servers`, which all of them share.

Called as programs (`main` in each folder; `sim` is no server: it runs the coordinator's rules). Servers never import
one another: they meet in protos. (A node may hold a coordinator.)
"""
