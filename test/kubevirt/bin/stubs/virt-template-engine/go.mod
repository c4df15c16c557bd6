module kubevirt.io/virt-template-engine

go 1.24

require (
	k8s.io/apimachinery v0.34.2
	kubevirt.io/api v1.9.0
	kubevirt.io/virt-template-api v0.2.0
)
