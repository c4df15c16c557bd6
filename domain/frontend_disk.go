package domain

func (g *guest) disks() {}
