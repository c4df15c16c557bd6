package domain

func (g *guest) watchdog() {}
