package domain

func (h *host) metadata() {}
