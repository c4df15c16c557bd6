package domain

func (g *guest) tpm() {}
