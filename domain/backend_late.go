package domain

func (h *host) resolveLate() {}
