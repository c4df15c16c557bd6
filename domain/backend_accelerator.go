package domain

func (h *host) accelerator() {}
