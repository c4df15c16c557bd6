package domain

func (g *guest) filesystems() {}
