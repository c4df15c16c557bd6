package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// connect gives the pods of each node their network, leads each node to the pods of the others, and
// waits until all nodes are ready for pods.
func (c *Cluster) connect(ctx context.Context) error {
	if os.Getenv(imageVariable) == "" {
		subnets, err := c.subnets(ctx)
		if err != nil {
			return err
		}
		for i, node := range c.Nodes() {
			if err := c.connectNode(ctx, node, i, subnets); err != nil {
				return err
			}
		}
		// A pod gets the node's list of hosts when it is made.
		if _, err := c.kubectlRun(ctx, "delete", "pods", "--namespace=kube-system", "--selector=k8s-app=kube-proxy", "--wait=false"); err != nil {
			return err
		}
	}
	_, err := c.kubectlRun(ctx, "wait", "nodes", "--all", "--for=condition=Ready", "--timeout="+createTimeout.String())
	if err != nil {
		return err
	}
	_, err = c.kubectlRun(ctx, "taint", "nodes", c.Nodes()[0], "node-role.kubernetes.io/control-plane-")
	return err
}

// A subnet is what the pods of a node have their addresses from, and the node's own address.
type subnet struct{ pods, node string }

// subnets waits until each node has a subnet.
func (c *Cluster) subnets(ctx context.Context) ([]subnet, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	found := make([]subnet, 0, len(nodes))
	for _, node := range c.Nodes() {
		for {
			const paths = `{.spec.podCIDR} {.status.addresses[?(@.type=="InternalIP")].address}`
			out, err := c.kubectlRun(ctx, "get", "node", node, "--ignore-not-found", "-o", "jsonpath="+paths)
			if err != nil {
				return nil, err
			}
			if fields := strings.Fields(out); len(fields) == 2 {
				found = append(found, subnet{pods: fields[0], node: fields[1]})
				break
			}
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("cannot wait for the addresses of node %s: %w", node, ctx.Err())
			case <-time.After(pollInterval):
			}
		}
	}
	return found, nil
}

// connectNode configures one node, which has the subnet of that index. The container engine forgets
// routes and hosts when it restarts the node.
func (c *Cluster) connectNode(ctx context.Context, node string, own int, subnets []subnet) error {
	// containerd notices a file that is written, and not one that is moved here.
	const configure = `sed "s#@SUBNET@#$0#" /kind/network/pods.conflist >/etc/cni/net.d/pods.conflist`
	_, failed := c.Exec(ctx, node, "sh", "-c", configure, subnets[own].pods)
	for i, other := range subnets {
		if i != own {
			_, route := c.Exec(ctx, node, "ip", "route", "replace", other.pods, "via", other.node)
			// kube-proxy looks the control plane up without docker's resolver.
			_, host := c.Exec(ctx, node, "sh", "-c", `echo "$0 $1" >>/etc/hosts`, other.node, c.Nodes()[i])
			failed = errors.Join(failed, route, host)
		}
	}
	return failed
}

// kubectlRun runs kubectl as the cluster's administrator.
func (c *Cluster) kubectlRun(ctx context.Context, args ...string) (string, error) {
	tools, err := c.Tools(ctx)
	if err != nil {
		return "", err
	}
	return command{path: tools + "/kubectl", args: args, env: []string{"KUBECONFIG=" + c.Kubeconfig()}}.run(ctx)
}
