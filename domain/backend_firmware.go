package domain

func (h *host) firmware() {}
