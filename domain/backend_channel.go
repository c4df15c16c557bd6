package domain

func (h *host) channels() {}
