package domain

func (h *host) disks() {}
