package domain

func (g *guest) vsock() {}
