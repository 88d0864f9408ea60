// Linking what each header compiles to is the test: no function is there twice.
int main() { return 0; }
