package validation

import (
	"iter"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var credentialRules = []Rule{{
	ID:    "credential-one-kind",
	Says:  "An access credential is an SSH key or a password.",
	Check: credentialOneKind,
}, {
	ID:    "credential-source",
	Says:  "An access credential comes from a secret.",
	Check: credentialSource,
}, {
	ID:    "credential-one-propagation",
	Says:  "An access credential reaches the guest in exactly one way.",
	Check: credentialOnePropagation,
}, {
	ID:    "credential-cloud-init-volume",
	Says:  "A credential that cloud-init brings has a cloud-init volume of that kind.",
	Check: credentialCloudInitVolume,
}, {
	ID:    "credential-agent-users",
	Says:  "An SSH key that the guest agent brings is for at least one user.",
	Check: credentialAgentUsers,
}, {
	ID:    "service-account-name",
	Says:  "The name of a service account is a DNS subdomain.",
	Check: serviceAccountName,
}, {
	ID:    "service-account-agrees",
	Says:  "The service account of the machine is that of its service account volume.",
	Check: serviceAccountAgrees,
}}

func (m *Machine) eachCredential() iter.Seq2[int, *kubevirtv1.AccessCredential] {
	return pointers(m.Spec.AccessCredentials)
}

// credential is the path of a part of an access credential.
func (m *Machine) credential(i int, more ...string) *field.Path {
	return under(m.Path("spec", "accessCredentials").Index(i), more)
}

func credentialOneKind(m *Machine, r *Report) {
	for i, c := range m.eachCredential() {
		switch count(c.SSHPublicKey != nil, c.UserPassword != nil) {
		case 0:
			r.Add(field.Required(m.credential(i), "must be one of sshPublicKey and userPassword"))
		case 2:
			r.Add(field.Forbidden(m.credential(i), "must be one of sshPublicKey and userPassword; make two credentials of them"))
		}
	}
}

func credentialSource(m *Machine, r *Report) {
	for i, c := range m.eachCredential() {
		if c.SSHPublicKey != nil && c.SSHPublicKey.Source.Secret == nil {
			r.Add(field.Required(m.credential(i, "sshPublicKey", "source", "secret"), "must name the secret with the keys"))
		}
		if c.UserPassword != nil && c.UserPassword.Source.Secret == nil {
			r.Add(field.Required(m.credential(i, "userPassword", "source", "secret"), "must name the secret with the passwords"))
		}
	}
}

func credentialOnePropagation(m *Machine, r *Report) {
	for i, c := range m.eachCredential() {
		if key := c.SSHPublicKey; key != nil {
			by := &key.PropagationMethod
			switch n := count(by.NoCloud != nil, by.ConfigDrive != nil, by.QemuGuestAgent != nil); {
			case n == 0:
				r.Add(field.Required(m.credential(i, "sshPublicKey", "propagationMethod"), "must be one of noCloud, configDrive and qemuGuestAgent"))
			case n > 1:
				r.Add(field.Forbidden(m.credential(i, "sshPublicKey", "propagationMethod"),
					"must be one of noCloud, configDrive and qemuGuestAgent; leave out the others"))
			}
		}
		if password := c.UserPassword; password != nil && password.PropagationMethod.QemuGuestAgent == nil {
			r.Add(field.Required(m.credential(i, "userPassword", "propagationMethod"), "must be qemuGuestAgent"))
		}
	}
}

func credentialCloudInitVolume(m *Machine, r *Report) {
	if len(m.Spec.AccessCredentials) == 0 {
		return
	}
	noCloud, configDrive := m.cloudInitKinds()
	for i, c := range m.eachCredential() {
		if c.SSHPublicKey == nil {
			continue
		}
		by := &c.SSHPublicKey.PropagationMethod
		if by.NoCloud != nil && !noCloud {
			r.Add(field.Invalid(m.credential(i, "sshPublicKey", "propagationMethod", "noCloud"), "noCloud", "must have a cloudInitNoCloud volume in the machine"))
		}
		if by.ConfigDrive != nil && !configDrive {
			r.Add(field.Invalid(m.credential(i, "sshPublicKey", "propagationMethod", "configDrive"), "configDrive",
				"must have a cloudInitConfigDrive volume in the machine"))
		}
	}
}

// cloudInitKinds says which kinds of cloud-init volume there are.
func (m *Machine) cloudInitKinds() (noCloud, configDrive bool) {
	for _, volume := range m.eachVolume() {
		noCloud = noCloud || volume.CloudInitNoCloud != nil
		configDrive = configDrive || volume.CloudInitConfigDrive != nil
	}
	return noCloud, configDrive
}

func credentialAgentUsers(m *Machine, r *Report) {
	for i, c := range m.eachCredential() {
		if c.SSHPublicKey == nil {
			continue
		}
		if agent := c.SSHPublicKey.PropagationMethod.QemuGuestAgent; agent != nil && len(agent.Users) == 0 {
			r.Add(field.Required(m.credential(i, "sshPublicKey", "propagationMethod", "qemuGuestAgent", "users"), "must name at least one user of the guest"))
		}
	}
}

func serviceAccountName(m *Machine, r *Report) {
	name := m.Spec.ServiceAccountName
	if name == "" {
		return
	}
	for _, detail := range validation.IsDNS1123Subdomain(name) {
		r.Add(field.Invalid(m.Path("spec", "serviceAccountName"), name, detail))
	}
}

func serviceAccountAgrees(m *Machine, r *Report) {
	name := m.Spec.ServiceAccountName
	if name == "" {
		return
	}
	for i, volume := range m.eachVolume() {
		if v := volume.ServiceAccount; v != nil && v.ServiceAccountName != "" && v.ServiceAccountName != name {
			r.Add(field.Invalid(m.volume(i, "serviceAccount", "serviceAccountName"), v.ServiceAccountName,
				"must be the service account of the machine, which is "+quoted(name)))
		}
	}
}
