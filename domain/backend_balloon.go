package domain

func (h *host) balloon() {}
