package domain

func (h *host) kernel() {}
