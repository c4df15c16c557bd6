package domain

func (g *guest) hostDevices() {}
