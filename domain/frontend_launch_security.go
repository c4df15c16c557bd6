package domain

func (g *guest) launchSecurity() {}
