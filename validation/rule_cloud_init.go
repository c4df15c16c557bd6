package validation

import (
	"encoding/base64"
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var cloudInitRules = []Rule{{
	ID:          "cloud-init-given",
	Requirement: "A cloud-init volume has user data or network data.",
	Check: func(vm *ExpandedVM, r *Report) {
		for user, network := range vm.cloudInit() {
			if user.sources() == 0 && network.sources() == 0 {
				r.Add(field.Required(vm.volumePath(user.volume, user.source), "must have userData or networkData"))
			}
		}
	},
}, {
	ID:          "cloud-init-one-source",
	Requirement: "User data and network data each have one source: plain text, base64, or a secret.",
	Check: func(vm *ExpandedVM, r *Report) {
		for user, network := range vm.cloudInit() {
			if user.sources() > 1 {
				r.Add(field.Forbidden(vm.volumePath(user.volume, user.source),
					"must have one of userData, userDataBase64 and secretRef; leave out the others"))
			}
			if network.sources() > 1 {
				r.Add(field.Forbidden(vm.volumePath(network.volume, network.source),
					"must have one of networkData, networkDataBase64 and networkDataSecretRef; leave out the others"))
			}
		}
	},
}, {
	ID:          "cloud-init-secret-name",
	Requirement: "The secrets of a cloud-init volume have valid names of objects.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for user, network := range vm.cloudInit() {
			if user.sources()+network.sources() > 0 { // else cloud-init-given reports it
				user.checkSecret(vm, r, "secretRef")
				network.checkSecret(vm, r, "networkDataSecretRef")
			}
		}
	},
}, {
	ID:          "cloud-init-base64",
	Leaf:        true,
	Requirement: "User data and network data in base64 can be decoded.",
	Check: func(vm *ExpandedVM, r *Report) {
		check := func(d *cloudInitData) {
			if _, err := base64.StdEncoding.DecodeString(d.base64); err != nil {
				r.Add(field.Invalid(d.path(vm, "Base64"), d.base64, "must be base64"))
			}
		}
		for user, network := range vm.cloudInit() {
			check(user)
			check(network)
		}
	},
}, {
	ID:          "cloud-init-size",
	Requirement: "User data and network data outside a secret have at most 2048 bytes each.",
	Check: func(vm *ExpandedVM, r *Report) {
		check := func(d *cloudInitData) {
			if len(d.plain) > maxCloudInit {
				r.Add(d.tooLarge(vm, ""))
			}
			// Base64 is longer than the data, so shorter text cannot exceed the limit.
			if len(d.base64) <= maxCloudInit {
				return
			}
			if decoded, err := base64.StdEncoding.DecodeString(d.base64); err == nil && len(decoded) > maxCloudInit {
				r.Add(d.tooLarge(vm, "Base64"))
			}
		}
		for user, network := range vm.cloudInit() {
			check(user)
			check(network)
		}
	},
}}

// maxCloudInit is the maximum size of user data and of network data, in bytes.
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

// sources returns the number of sources of the data.
func (d *cloudInitData) sources() int {
	return count(d.secret != nil && d.secret.Name != "", d.base64 != "", d.plain != "")
}

// path returns the path of the data; form is the suffix of the field, such as Base64.
func (d *cloudInitData) path(vm *ExpandedVM, form string) *field.Path {
	return vm.volumePath(d.volume, d.source, d.name+form)
}

// cloudInit yields user data and network data of every cloud-init volume.
func (vm *ExpandedVM) cloudInit() iter.Seq2[*cloudInitData, *cloudInitData] {
	return func(yield func(user, network *cloudInitData) bool) {
		for i, volume := range pointers(volumesOf(vm)) {
			if v := volume.CloudInitNoCloud; v != nil && !yield(cloudInitOf(i, "cloudInitNoCloud", v)) {
				return
			}
			if v := volume.CloudInitConfigDrive; v != nil {
				// The conversion compiles only while the two types have the same fields.
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

func (d *cloudInitData) tooLarge(vm *ExpandedVM, form string) *field.Error {
	err := field.TooLong(d.path(vm, form), "", maxCloudInit)
	err.Detail = "must have at most 2048 bytes; use a secret for more"
	return err
}

// checkSecret reports a secret whose name no secret can have. The field called name refers to it.
func (d *cloudInitData) checkSecret(vm *ExpandedVM, r *Report, name string) {
	if d.secret != nil && !isDNSSubdomain(d.secret.Name) {
		r.Add(field.Invalid(vm.volumePath(d.volume, d.source, name, "name"), d.secret.Name, dnsSubdomainDetail))
	}
}
