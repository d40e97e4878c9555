"""How a data set becomes known: its files listed, its digest found or waited for while a node scans; and which data
sets this process reads (`made_datasets`), by which its steps are told to the coordinator as those of their job; the
node here is told of them, and of the credentials that it is to read them with, as long as they are read
(`store_access`).

Called by the client, by readers without TensorFlow and by the command line, which registers and lists as users do.
Never imports TensorFlow, and never reads the files themselves: nodes do.
"""
