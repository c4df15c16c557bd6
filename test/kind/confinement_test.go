package kind

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// intrude puts busybox into the writable folder of a launcher, as code that has taken it over
// could, and returns what a shell of it prints there.
func intrude(name string) func(script string) string {
	GinkgoHelper()
	pod := field(guests+"/pod/"+launcherOf(name), ".metadata.uid")
	onNode(name, fmt.Sprintf(`mkdir -p /run/guest && ctr --namespace k8s.io images mount %s /run/guest >/dev/null &&
		cp /run/guest/bin/busybox /var/lib/kubelet/pods/%s/volumes/kubernetes.io~empty-dir/tmp/ && ctr --namespace k8s.io images unmount --rm /run/guest >/dev/null`,
		guestImage, pod))
	exec := []string{"exec", "--namespace", guests, "--container=compute", launcherOf(name), "--", "/tmp/busybox"}
	kubectl(append(exec, "mkdir", "-p", "/tmp/bin")...)
	kubectl(append(exec, "--install", "-s", "/tmp/bin")...)
	return func(script string) string {
		GinkgoHelper()
		return strings.TrimSpace(kubectl(append(exec, "sh", "-c", "export PATH=/tmp/bin:/usr/bin\n"+script)...))
	}
}

// confinement tells what code reaches that has taken over the launcher of VM web.
func confinement() {
	var shell func(script string) string

	It("runs a launcher without privileges", func() {
		shell = intrude("web")
		for _, status := range []string{shell("cat /proc/self/status"), onNode("web", "cat /proc/"+process("web")+"/status")} {
			Expect(status).To(MatchRegexp(`CapEff:\s+0+\n`))
			Expect(status).To(MatchRegexp(`CapBnd:\s+0+\n`))
			Expect(status).To(MatchRegexp(`NoNewPrivs:\s+1\n`))
			Expect(status).To(MatchRegexp(`Seccomp:\s+2\n`))
			Expect(status).To(MatchRegexp(`Uid:\s+107\s+107\s+107\s+107\n`))
		}
		Expect(shell("find / -path /proc -prune -o -type f -perm /6000 -print 2>/dev/null; true")).To(BeEmpty(), "setuid programs")
		Expect(shell("for folder in / /usr /etc /var /usr/bin; do touch $folder/x 2>/dev/null && echo $folder; done; true")).To(BeEmpty(), "writable folders")
		Expect(shell("unshare -U true 2>/dev/null && echo user namespace; mount -t tmpfs none /mnt 2>/dev/null && echo mount; true")).To(BeEmpty())
	})

	It("gives a launcher no token", func() {
		Expect(shell("find / -path /proc -prune -o -name 'token*' -print 2>/dev/null; env | grep -i token; ls /var/run/secrets /run/secrets 2>/dev/null; true")).To(BeEmpty())
		Expect(console("web")).NotTo(ContainSubstring("/token="))
	})

	It("gives a guest the token that its VM asks for by a serviceAccount volume", func() {
		create(guest("account", `{"domain": {"devices": {"disks": [{"name": "account", "disk": {"bus": "virtio"}}]}},
			"volumes": [{"name": "account", "serviceAccount": {"serviceAccountName": "default"}}]}`))
		Expect(awaitGuest("account")).To(ContainSubstring("/token="))
	})

	It("leaves a launcher what the network gives to any pod", func() {
		request := func(address, path string) string {
			return shell(fmt.Sprintf(`printf 'GET %s HTTP/1.0\r\n\r\n' | timeout 10 openssl s_client -quiet -connect %s 2>/dev/null | head -n 1`, path, address))
		}
		Expect(request("$KUBERNETES_SERVICE_HOST:443", "/api/v1/namespaces/guests/secrets")).To(MatchRegexp(`HTTP/1.. 40[13] `), "the API server, without a token")
		Expect(request(vmi("web", ".status.nodeName")+":10250", "/pods")).To(Or(BeEmpty(), MatchRegexp(`HTTP/1.. 40[13] `)), "the kubelet, without a certificate")
		Expect(shell("netstat -l -t -n | awk '/LISTEN/ {print $4}'")).To(Equal("0.0.0.0:8080"), "the guest's port is all that listens")
		Expect(shell("nslookup web.guests.svc.cluster.local >/dev/null 2>&1 && echo DNS answers")).To(Equal("DNS answers"))
	})
}
