package domain

func (h *host) interfaces() {}
