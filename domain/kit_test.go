package domain

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

func quantity(text string) resource.Quantity { return resource.MustParse(text) }
