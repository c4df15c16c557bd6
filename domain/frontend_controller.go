package domain

func (g *guest) controllers() {}
