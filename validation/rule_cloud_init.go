package validation

import (
	"encoding/base64"
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var cloudInitRules = []Rule{{
	ID:    "cloud-init-given",
	Says:  "A cloud-init volume has user data or network data.",
	Check: cloudInitGiven,
}, {
	ID:    "cloud-init-one-source",
	Says:  "User data and network data each come from one place: written out, in base64, or in a secret.",
	Check: cloudInitOneSource,
}, {
	ID:    "cloud-init-base64",
	Leaf:  true,
	Says:  "User data and network data in base64 can be decoded.",
	Check: cloudInitBase64,
}, {
	ID:    "cloud-init-size",
	Says:  "User data and network data outside a secret have at most 2048 bytes each.",
	Check: cloudInitSize,
}}

// maxCloudInit is how large user data and network data may be, in bytes.
const maxCloudInit = 2048

// cloudInitData is one kind of data of a cloud-init volume.
type cloudInitData struct {
	volume int
	source string // the field of the volume
	name   string // userData or networkData
	secret *corev1.LocalObjectReference
	base64 string
	plain  string
}

// sources counts from how many places the data comes.
func (d *cloudInitData) sources() int {
	return count(d.secret != nil && d.secret.Name != "", d.base64 != "", d.plain != "")
}

// at is where the data stands; form is what follows its name there.
func (d *cloudInitData) at(m *Machine, form string) *field.Path {
	return m.volume(d.volume, d.source, d.name+form)
}

// cloudInit yields user data and network data of every cloud-init volume.
func (m *Machine) cloudInit() iter.Seq2[*cloudInitData, *cloudInitData] {
	return func(yield func(user, network *cloudInitData) bool) {
		for i, volume := range m.eachVolume() {
			if v := volume.CloudInitNoCloud; v != nil && !yield(cloudInitOf(i, "cloudInitNoCloud", v)) {
				return
			}
			if v := volume.CloudInitConfigDrive; v != nil {
				// The two types have the same fields; a conversion says so to the compiler.
				if !yield(cloudInitOf(i, "cloudInitConfigDrive", (*kubevirtv1.CloudInitNoCloudSource)(v))) {
					return
				}
			}
		}
	}
}

func cloudInitOf(i int, source string, v *kubevirtv1.CloudInitNoCloudSource) (user, network *cloudInitData) {
	return &cloudInitData{i, source, "userData", v.UserDataSecretRef, v.UserDataBase64, v.UserData},
		&cloudInitData{i, source, "networkData", v.NetworkDataSecretRef, v.NetworkDataBase64, v.NetworkData}
}

func cloudInitGiven(m *Machine, r *Report) {
	for user, network := range m.cloudInit() {
		if user.sources() == 0 && network.sources() == 0 {
			r.Add(field.Required(m.volume(user.volume, user.source), "must have userData or networkData"))
		}
	}
}

func cloudInitOneSource(m *Machine, r *Report) {
	for user, network := range m.cloudInit() {
		if user.sources() > 1 {
			r.Add(field.Forbidden(m.volume(user.volume, user.source), "must have one of userData, userDataBase64 and secretRef; leave out the others"))
		}
		if network.sources() > 1 {
			r.Add(field.Forbidden(m.volume(network.volume, network.source),
				"must have one of networkData, networkDataBase64 and networkDataSecretRef; leave out the others"))
		}
	}
}

func cloudInitBase64(m *Machine, r *Report) {
	check := func(d *cloudInitData) {
		if _, err := base64.StdEncoding.DecodeString(d.base64); err != nil {
			r.Add(field.Invalid(d.at(m, "Base64"), d.base64, "must be base64"))
		}
	}
	for user, network := range m.cloudInit() {
		check(user)
		check(network)
	}
}

func cloudInitSize(m *Machine, r *Report) {
	check := func(d *cloudInitData) {
		if len(d.plain) > maxCloudInit {
			r.Add(d.tooLarge(m, ""))
		}
		// Base64 of more than the limit is longer still.
		if len(d.base64) <= maxCloudInit {
			return
		}
		if decoded, err := base64.StdEncoding.DecodeString(d.base64); err == nil && len(decoded) > maxCloudInit {
			r.Add(d.tooLarge(m, "Base64"))
		}
	}
	for user, network := range m.cloudInit() {
		check(user)
		check(network)
	}
}

func (d *cloudInitData) tooLarge(m *Machine, form string) *field.Error {
	err := field.TooLong(d.at(m, form), "", maxCloudInit)
	err.Detail = "must have at most 2048 bytes; keep more in a secret"
	return err
}
