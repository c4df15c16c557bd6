package domain

func (h *host) graphics() {}
