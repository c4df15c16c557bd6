package domain

func (g *guest) channels() {}
