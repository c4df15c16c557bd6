package domain

func (g *guest) serial() {}
