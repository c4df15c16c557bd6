package domain

func (h *host) ioThreads() {}
