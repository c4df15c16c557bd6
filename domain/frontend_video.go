package domain

func (g *guest) video() {}
