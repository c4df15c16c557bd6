package domain

func (g *guest) sound() {}
