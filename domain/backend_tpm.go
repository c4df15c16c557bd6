package domain

func (h *host) tpm() {}
