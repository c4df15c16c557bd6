package domain

func (g *guest) rng() {}
