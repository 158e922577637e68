"""The HTTP/1.1 server: connections, requests and answers as bytes, over httptools' parser."""
