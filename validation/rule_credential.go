package validation

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var credentialRules = []Rule{{
	ID:          "credential-one-kind",
	Requirement: "An access credential is an SSH key or a password.",
	Check: forEach(credentialsOf, func(vm *ExpandedVM, r *Report, i int, c *kubevirtv1.AccessCredential) {
		const detail = "must be one of sshPublicKey and userPassword"
		r.exactlyOne(func() *field.Path { return vm.credentialPath(i) }, count(c.SSHPublicKey != nil, c.UserPassword != nil),
			detail, detail+"; use two credentials")
	}),
}, {
	ID:          "credential-source",
	Requirement: "An access credential comes from a secret.",
	Check: forEach(credentialsOf, func(vm *ExpandedVM, r *Report, i int, c *kubevirtv1.AccessCredential) {
		if c.SSHPublicKey != nil && c.SSHPublicKey.Source.Secret == nil {
			r.Add(field.Required(vm.credentialPath(i, "sshPublicKey", "source", "secret"), "must name the secret with the keys"))
		}
		if c.UserPassword != nil && c.UserPassword.Source.Secret == nil {
			r.Add(field.Required(vm.credentialPath(i, "userPassword", "source", "secret"), "must name the secret with the passwords"))
		}
	}),
}, {
	ID:          "credential-one-propagation",
	Requirement: "An access credential has exactly one propagation method.",
	Check: forEach(credentialsOf, func(vm *ExpandedVM, r *Report, i int, c *kubevirtv1.AccessCredential) {
		if key := c.SSHPublicKey; key != nil {
			by := &key.PropagationMethod
			const detail = "must be one of noCloud, configDrive and qemuGuestAgent"
			r.exactlyOne(func() *field.Path { return vm.credentialPath(i, "sshPublicKey", "propagationMethod") },
				count(by.NoCloud != nil, by.ConfigDrive != nil, by.QemuGuestAgent != nil), detail, detail+"; leave out the others")
		}
		if password := c.UserPassword; password != nil && password.PropagationMethod.QemuGuestAgent == nil {
			r.Add(field.Required(vm.credentialPath(i, "userPassword", "propagationMethod"), "must be qemuGuestAgent"))
		}
	}),
}, {
	ID:          "credential-cloud-init-volume",
	Requirement: "A credential with propagation method noCloud or configDrive has a cloud-init volume of that kind.",
	Check: func(vm *ExpandedVM, r *Report) {
		if len(vm.Spec.AccessCredentials) == 0 {
			return
		}
		noCloud, configDrive := vm.cloudInitKinds()
		for i, c := range pointers(credentialsOf(vm)) {
			if c.SSHPublicKey == nil {
				continue
			}
			by := &c.SSHPublicKey.PropagationMethod
			if by.NoCloud != nil && !noCloud {
				r.Add(field.Invalid(vm.credentialPath(i, "sshPublicKey", "propagationMethod", "noCloud"), "noCloud",
					"requires a cloudInitNoCloud volume"))
			}
			if by.ConfigDrive != nil && !configDrive {
				r.Add(field.Invalid(vm.credentialPath(i, "sshPublicKey", "propagationMethod", "configDrive"), "configDrive",
					"requires a cloudInitConfigDrive volume"))
			}
		}
	},
}, {
	ID:          "credential-agent-users",
	Requirement: "An SSH key with propagation method qemuGuestAgent has at least one user.",
	Check: forEach(credentialsOf, func(vm *ExpandedVM, r *Report, i int, c *kubevirtv1.AccessCredential) {
		if c.SSHPublicKey == nil {
			return
		}
		if agent := c.SSHPublicKey.PropagationMethod.QemuGuestAgent; agent != nil && len(agent.Users) == 0 {
			r.Add(field.Required(vm.credentialPath(i, "sshPublicKey", "propagationMethod", "qemuGuestAgent", "users"),
				"must name at least one user of the guest"))
		}
	}),
}, {
	ID:          "service-account-name",
	Requirement: "The name of a service account is a DNS subdomain.",
	Check: func(vm *ExpandedVM, r *Report) {
		name := vm.Spec.ServiceAccountName
		if name == "" {
			return
		}
		for _, detail := range validation.IsDNS1123Subdomain(name) {
			r.Add(field.Invalid(vm.Path("spec", "serviceAccountName"), name, detail))
		}
	},
}, {
	ID:          "service-account-agrees",
	Requirement: "serviceAccountName and the service account volume name the same service account.",
	Check: func(vm *ExpandedVM, r *Report) {
		name := vm.Spec.ServiceAccountName
		if name == "" {
			return
		}
		for i, volume := range pointers(volumesOf(vm)) {
			if v := volume.ServiceAccount; v != nil && v.ServiceAccountName != "" && v.ServiceAccountName != name {
				r.Add(field.Invalid(vm.volumePath(i, "serviceAccount", "serviceAccountName"), v.ServiceAccountName,
					"must be equal to serviceAccountName, which is "+quoted(name)))
			}
		}
	},
}}

func credentialsOf(vm *ExpandedVM) []kubevirtv1.AccessCredential { return vm.Spec.AccessCredentials }

func (vm *ExpandedVM) credentialPath(i int, more ...string) *field.Path {
	return childPath(vm.Path("spec", "accessCredentials").Index(i), more)
}

// cloudInitKinds reports which kinds of cloud-init volumes exist.
func (vm *ExpandedVM) cloudInitKinds() (noCloud, configDrive bool) {
	for _, volume := range pointers(volumesOf(vm)) {
		noCloud = noCloud || volume.CloudInitNoCloud != nil
		configDrive = configDrive || volume.CloudInitConfigDrive != nil
	}
	return noCloud, configDrive
}
