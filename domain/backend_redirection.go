package domain

func (h *host) redirection() {}
