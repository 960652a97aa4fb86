package main

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// acceptTable asks the server for its columns instead of objects: what they show is decided in one place, there.
const acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// decodeTable reads a table as the server sends it, its rows' objects included.
func decodeTable(data []byte) (*metav1.Table, error) {
	table := &metav1.Table{}
	if err := json.Unmarshal(data, table); err != nil {
		return nil, err
	}
	for i := range table.Rows {
		row := &table.Rows[i].Object
		if row.Raw == nil {
			continue
		}
		object := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(row.Raw, object); err != nil {
			return nil, err
		}
		row.Object = object
	}
	return table, nil
}
