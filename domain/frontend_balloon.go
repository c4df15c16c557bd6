package domain

func (g *guest) balloon() {}
