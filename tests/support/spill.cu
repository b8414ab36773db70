/* spill.cu - a kernel with an array that cannot be in registers, which tests/gates.sh must find. */
__global__ void spill(int *x, int i, int j) {
    int local[64];
    for (int k = 0; k < 64; k++) local[k] = x[k];
    local[i] = j;
    for (int k = 0; k < 64; k++) x[k] = local[(k + j) & 63];
}
