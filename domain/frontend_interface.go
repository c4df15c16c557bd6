package domain

func (g *guest) interfaces() {}
