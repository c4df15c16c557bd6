package domain

func (h *host) cpuPlacement() {}
