package domain

func (h *host) memory() {}
