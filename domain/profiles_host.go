package domain

import (
	"slices"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// HostProfile is how what a host decides by itself is named among the profiles
// that had a part. No profile of a cluster can have this name.
const HostProfile = "(host)"

// OnHost are the profiles with what a host decides by itself where none of them
// does, as where its own folders are: weaker than any profile, stronger than
// what is built in.
func (p *Profiles) OnHost(settings *v1alpha1.BackendSettings) *Profiles {
	return &Profiles{
		frontend: p.frontend,
		backend:  append(slices.Clip(p.backend), compiled(HostProfile, 0, &v1alpha1.ProfileMatch{}, *settings)),
	}
}
