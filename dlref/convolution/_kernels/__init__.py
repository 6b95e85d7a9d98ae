"""Windows that the topics of the chapter convolution share."""
