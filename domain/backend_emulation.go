package domain

func (h *host) emulation() {}
