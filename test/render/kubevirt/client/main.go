// Command client calls a VMI's subresources through KubeVirt's client library:
//
//	client NAMESPACE VMI pause|unpause|reset|softreboot|console|vnc|portforward|vm-portforward
//
// Standard input and output are those of the console, the display or port 22; the end of the input
// ends the connection.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubecli"
	kvcorev1 "kubevirt.io/client-go/kubevirt/typed/core/v1"
)

const sshPort = 22

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "want NAMESPACE VMI CALL")
		os.Exit(2)
	}
	if err := call(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func call(namespace, name, verb string) error {
	client, err := kubecli.GetKubevirtClientFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	ctx, vmis := context.Background(), client.VirtualMachineInstance(namespace)
	var stream kvcorev1.StreamInterface
	switch verb {
	case "pause":
		return vmis.Pause(ctx, name, &v1.PauseOptions{})
	case "unpause":
		return vmis.Unpause(ctx, name, &v1.UnpauseOptions{})
	case "reset":
		return vmis.Reset(ctx, name)
	case "softreboot":
		return vmis.SoftReboot(ctx, name)
	case "console":
		stream, err = vmis.SerialConsole(name, &kvcorev1.SerialConsoleOptions{ConnectionTimeout: time.Minute})
	case "vnc":
		stream, err = vmis.VNC(name, false)
	case "portforward":
		stream, err = vmis.PortForward(name, sshPort, "tcp")
	case "vm-portforward":
		stream, err = client.VirtualMachine(namespace).PortForward(name, sshPort, "tcp")
	default:
		err = fmt.Errorf("unsupported call %q", verb)
	}
	if err != nil {
		return err
	}
	return stream.Stream(kvcorev1.StreamOptions{In: os.Stdin, Out: os.Stdout})
}
