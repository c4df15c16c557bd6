package domain

func (h *host) filesystems() {}
