package domain

func (h *host) launchSecurity() {}
