package domain

func (g *guest) inputs() {}
