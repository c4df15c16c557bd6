package domain

func (h *host) rng() {}
