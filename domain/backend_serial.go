package domain

func (h *host) serial() {}
