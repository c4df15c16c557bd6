package domain

func (g *guest) redirection() {}
