"""What users build: the graph, the schemas of its state, its checks, its compiled face and its drawing."""
