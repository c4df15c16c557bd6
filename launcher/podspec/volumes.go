package podspec

import (
	"cmp"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
)

// Names of the pod's own volumes. Those of the VMI's volumes begin with volumePrefix.
const (
	volumePrefix = "vmi-"
	runVolume    = "run"
	tmpVolume    = "tmp"
	toolsVolume  = "tools"
	kernelVolume = "kernel"
	pagesVolume  = "hugepages"
)

// defaultDiskPath is the folder of the disk in the image of a container disk.
const defaultDiskPath = "/disk"

// tokenSeconds is the lifetime of the token of a serviceAccount volume. The guest has a copy, which
// is not renewed.
const tokenSeconds = 24 * 3600

// diskMargin is the space that an image file may take in addition to the size of its disk.
const diskMargin = 64 << 20

// folders adds writable folders: the root is read-only.
func (b *builder) folders() {
	b.add(runVolume, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, v1alpha1.RunFolder)
	b.add(tmpVolume, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, "/tmp")
	if m := b.spec.Domain.Memory; m != nil && m.Hugepages != nil {
		b.add(pagesVolume, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}}, "/dev/hugepages")
	}
}

func (b *builder) add(name string, source corev1.VolumeSource, at string) {
	b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	b.launcher.VolumeMounts = append(b.launcher.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at})
}

func (b *builder) volumes() {
	for i := range b.spec.Volumes {
		b.volume(&b.spec.Volumes[i])
	}
}

func (b *builder) volume(v *kubevirtv1.Volume) {
	at := path.Join(v1alpha1.VolumesFolder, v.Name)
	switch {
	case v.PersistentVolumeClaim != nil:
		b.claim(v.Name, v.PersistentVolumeClaim.PersistentVolumeClaimVolumeSource)
	case v.DataVolume != nil:
		b.claim(v.Name, corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.DataVolume.Name})
	case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
		b.claim(v.Name, *v.Ephemeral.PersistentVolumeClaim)
	case v.ContainerDisk != nil:
		b.containerDisk(v.Name, v.ContainerDisk)
	case v.EmptyDisk != nil:
		limit := v.EmptyDisk.Capacity.DeepCopy()
		limit.Add(*resource.NewQuantity(diskMargin, resource.BinarySI))
		b.add(short(volumePrefix+v.Name), corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}, at)
	case v.HostDisk != nil:
		kind := corev1.HostPathDirectory
		b.add(short(volumePrefix+v.Name), corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path.Dir(v.HostDisk.Path), Type: &kind}}, at)
	default:
		if source := dataSource(v); source != nil {
			b.add(short(volumePrefix+v.Name), *source, at)
		}
		b.cloudInit(v)
	}
	if v.ServiceAccount != nil {
		b.pod.Spec.ServiceAccountName = v.ServiceAccount.ServiceAccountName
	}
}

// dataSource returns a volume with files that the launcher writes to an image.
func dataSource(v *kubevirtv1.Volume) *corev1.VolumeSource {
	switch {
	case v.Secret != nil:
		return secretSource(v.Secret.SecretName, v.Secret.Optional)
	case v.ConfigMap != nil:
		return &corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: v.ConfigMap.LocalObjectReference, Optional: v.ConfigMap.Optional}}
	case v.Sysprep != nil && v.Sysprep.Secret != nil:
		return secretSource(v.Sysprep.Secret.Name, nil)
	case v.Sysprep != nil && v.Sysprep.ConfigMap != nil:
		return &corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: *v.Sysprep.ConfigMap}}
	case v.DownwardAPI != nil:
		return &corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: v.DownwardAPI.Fields}}
	case v.ServiceAccount != nil:
		return tokenSource()
	}
	return nil
}

func secretSource(name string, optional *bool) *corev1.VolumeSource {
	return &corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Optional: optional}}
}

// tokenSource returns the usual volume of a service account. The pod has no other token.
func tokenSource() *corev1.VolumeSource {
	return &corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(tokenSeconds))}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
		}}},
	}}}
}

// cloudInit mounts the Secrets of a cloud-init volume.
func (b *builder) cloudInit(v *kubevirtv1.Volume) {
	source := cmp.Or(v.CloudInitNoCloud, (*kubevirtv1.CloudInitNoCloudSource)(v.CloudInitConfigDrive))
	if source == nil {
		return
	}
	if user := source.UserDataSecretRef; user != nil {
		b.add(short("user-"+v.Name), *secretSource(user.Name, nil), path.Join(v1alpha1.CloudInitFolder, v.Name, "user"))
	}
	if network := source.NetworkDataSecretRef; network != nil {
		b.add(short("network-"+v.Name), *secretSource(network.Name, nil), path.Join(v1alpha1.CloudInitFolder, v.Name, "network"))
	}
}

// claim mounts the file system of a claim, or adds its block device.
func (b *builder) claim(name string, source corev1.PersistentVolumeClaimVolumeSource) {
	known, own := b.Claims[source.ClaimName], corev1.Volume{Name: short(volumePrefix + name)}
	own.PersistentVolumeClaim = &source
	if known.Block {
		b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, own)
		device := corev1.VolumeDevice{Name: own.Name, DevicePath: path.Join(v1alpha1.BlockFolder, name)}
		b.launcher.VolumeDevices = append(b.launcher.VolumeDevices, device)
	} else {
		b.add(own.Name, own.VolumeSource, path.Join(v1alpha1.VolumesFolder, name))
	}
	if b.input.Volumes == nil {
		b.input.Volumes = map[string]domain.InputVolume{}
	}
	volume := domain.InputVolume{Block: known.Block}
	if !known.Capacity.IsZero() {
		volume.Capacity = &known.Capacity
	}
	b.input.Volumes[name] = volume
}

// containerDisk mounts or copies the image of a disk.
func (b *builder) containerDisk(name string, disk *kubevirtv1.ContainerDiskSource) {
	at := path.Join(v1alpha1.VolumesFolder, name)
	b.pullSecret(disk.ImagePullSecret)
	b.mountOrCopy(short(volumePrefix+name), at, corev1.Container{
		Name: short("disk-" + name), Image: disk.Image, ImagePullPolicy: disk.ImagePullPolicy,
		Args: []string{"--from=" + cmp.Or(disk.Path, defaultDiskPath), "--to=" + path.Join(at, "disk.img")},
	})
}

// mountOrCopy mounts the image of a container if nodes can do so. Otherwise the container, which
// runs a copy of the launcher's program, copies files from its image to a volume.
func (b *builder) mountOrCopy(volume, at string, c corev1.Container) {
	if b.settings.ImageVolumes {
		b.add(volume, corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: c.Image, PullPolicy: c.ImagePullPolicy}}, at)
		return
	}
	limit := b.settings.ContainerDiskLimit
	b.add(volume, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}, at)
	c.VolumeMounts = []corev1.VolumeMount{{Name: volume, MountPath: at}}
	b.copies(c)
}

// kernel mounts or copies the kernel and the initial RAM disk of an image.
func (b *builder) kernel() {
	f := b.spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil || f.KernelBoot.Container == nil {
		return
	}
	from := f.KernelBoot.Container
	b.pullSecret(from.ImagePullSecret)
	var args []string
	for _, file := range []string{from.KernelPath, from.InitrdPath} {
		if file != "" {
			args = append(args, "--from="+file, "--to="+path.Join(v1alpha1.KernelFolder, path.Base(file)))
		}
	}
	b.mountOrCopy(kernelVolume, v1alpha1.KernelFolder, corev1.Container{
		Name: "kernel-boot", Image: from.Image, ImagePullPolicy: from.ImagePullPolicy, Args: args,
	})
}

// copies adds an init container that copies files from its image. Before the first one, another
// init container copies the program that it runs.
func (b *builder) copies(c corev1.Container) {
	tools := corev1.VolumeMount{Name: toolsVolume, MountPath: v1alpha1.ToolsFolder}
	program := path.Join(v1alpha1.ToolsFolder, path.Base(v1alpha1.LauncherProgram))
	if len(b.pod.Spec.InitContainers) == 0 {
		b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, corev1.Volume{Name: toolsVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		b.pod.Spec.InitContainers = append(b.pod.Spec.InitContainers, b.initContainer(corev1.Container{
			Name: "tools", Image: b.settings.Image, ImagePullPolicy: b.settings.PullPolicy, Command: []string{v1alpha1.LauncherProgram, "copy"},
			Args: []string{"--from=" + v1alpha1.LauncherProgram, "--to=" + program}, VolumeMounts: []corev1.VolumeMount{tools},
		}))
	}
	tools.ReadOnly = true
	c.Command, c.VolumeMounts = []string{program, "copy"}, append(c.VolumeMounts, tools)
	b.pod.Spec.InitContainers = append(b.pod.Spec.InitContainers, b.initContainer(c))
}

func (b *builder) initContainer(c corev1.Container) corev1.Container {
	c.SecurityContext, c.TerminationMessagePolicy = confined(), corev1.TerminationMessageFallbackToLogsOnError
	memory := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")}
	c.Resources = corev1.ResourceRequirements{Requests: resourcesOf(memory), Limits: memory}
	limit, limited := b.spec.Domain.Resources.Limits[corev1.ResourceCPU]
	switch share := resource.MustParse("10m"); {
	case b.dedicated():
		// The kubelet dedicates CPUs only if the limits of every container equal its requests.
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		c.Resources.Limits = c.Resources.Requests
	case limited: // namespaces with a quota may require a limit
		c.Resources.Limits[corev1.ResourceCPU] = limit
		if limit.Cmp(share) < 0 {
			share = limit
		}
		fallthrough
	default:
		c.Resources.Requests[corev1.ResourceCPU] = share
	}
	return c
}
